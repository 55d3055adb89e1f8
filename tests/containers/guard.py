"""Removes a container once the run that started it is gone, however it ended: `python guard.py NAME`.

It waits for the end of its input, which the system closes even for a run that was killed.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Let no container of this name outlive the process."""
    # Signals to the group of a terminal do not reach a session of its own.
    with subprocess.Popen([sys.executable, "-I", __file__, name], stdin=subprocess.PIPE, start_new_session=True):
        yield


def main() -> None:
    """Wait, and remove what is still there."""
    [name] = sys.argv[1:]
    sys.stdin.read()
    import docker

    with closing(docker.from_env()) as engine:
        for container in engine.containers.list(all=True, filters={"name": f"^/?{name}$"}):
            container.remove(force=True, v=True)


if __name__ == "__main__":
    main()
