"""Git repositories to test with."""

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository whose commits have the times that a test gives them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, time_s: int = 1_700_000_000) -> str:
        """Run git; give what it prints."""
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{
                f"GIT_{who}_{what}": f"{who}@example.org"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            "GIT_AUTHOR_DATE": f"@{time_s} +0000",
            "GIT_COMMITTER_DATE": f"@{time_s} +0000",
        }
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - whichever there is
            cwd=self.path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | bytes | None], *, time_s: int = 1_700_000_000, amend: bool = False) -> str:
        """Write files, remove those that are None, commit, or rewrite the last commit; give the commit's id."""
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        how = ["--amend"] if amend else []
        self.git("commit", "--quiet", "--allow-empty", "--message", "change", *how, time_s=time_s)
        return self.git("rev-parse", "HEAD")
