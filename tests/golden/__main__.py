"""Write the golden bytes of versions that have none: `python -m tests.golden`."""

from tests.golden import write_missing

if __name__ == "__main__":
    for path in write_missing():
        print(path)  # noqa: T201 - a command's answer
