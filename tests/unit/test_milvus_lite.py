import os
import subprocess
import sys


def in_a_process_of_its_own(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_server_is_found_without_importing_its_package() -> None:
    script = """
import sys
from freki.infra.local.milvus_lite import PROGRAM, program_directory
print(program_directory() / PROGRAM)
print(*{"milvus_lite", "pkg_resources"} & set(sys.modules))
"""

    program, imported = in_a_process_of_its_own(script).splitlines()

    assert os.access(program, os.X_OK)
    assert imported == ""


def test_a_missing_package_is_named() -> None:
    script = """
import sys
from freki.schemas.errors import Misconfigured
from freki.infra.local.milvus_lite import program_directory
sys.path[:] = []
try:
    program_directory()
except Misconfigured as error:
    print(error)
"""

    assert "install milvus-lite" in in_a_process_of_its_own(script)
