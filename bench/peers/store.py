"""Store of the peers: the same server as in Freki's local stack."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from freki.infra.local.ports import LOOPBACK, choose_port

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05
_SHOW_COLLECTIONS = "/milvus.proto.milvus.MilvusService/ShowCollections"


@contextmanager
def serve_store(python: str, directory: Path) -> Iterator[str]:
    """Serve an empty Milvus Lite; yield its URI. Raises TimeoutError if it does not answer."""
    port = choose_port("of the store", 0, last=None, avoid=())
    command = [python, "-m", "freki.infra.local.milvus_lite", str(directory / "store.db"), str(port)]
    server = subprocess.Popen(command)  # noqa: S603 - our own module
    try:
        _wait(server, port)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.terminate()
        server.wait(_STOP_TIMEOUT_S)


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + _START_TIMEOUT_S
    while server.poll() is None and time.monotonic() < give_up:
        try:
            with grpc.insecure_channel(f"{LOOPBACK}:{port}") as channel:
                channel.unary_unary(_SHOW_COLLECTIONS)(b"", timeout=1.0)
        except grpc.RpcError:
            time.sleep(_POLL_S)
        else:
            return
    raise TimeoutError("the store does not answer")
