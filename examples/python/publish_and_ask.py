"""Publish a document, wait for its receipt, ask a question: `python publish_and_ask.py 127.0.0.1:9092`."""

import asyncio
import sys

from freki.client import Broker, Client, OutcomeStatus


async def main(bootstrap: str) -> None:
    """Do it."""
    # The broker of `freki up` without --kafka knows no idempotent producers.
    async with Client(Broker(bootstrap=bootstrap, idempotent=False)) as client:
        published = await client.publish(
            "examples/python", "Der Antrag ist schriftlich zu stellen.", principals=["everyone"]
        )
        receipt = await client.wait(published)
        if receipt.status not in {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED}:
            sys.exit(f"{receipt.status}: {receipt.reason}")
        result = await client.ask("Wie ist der Antrag zu stellen?")
        print(result.status)
        for hit in result.hits:
            print(hit.rank, hit.document_id, hit.text)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit("usage: python publish_and_ask.py HOST:PORT")
    asyncio.run(main(sys.argv[1]))
