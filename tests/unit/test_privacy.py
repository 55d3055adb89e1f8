import subprocess
import sys

ASK = "import os, freki.infra.models; print(os.environ['ORT_DISABLE_TELEMETRY'])"


def test_the_runtime_of_the_models_is_told_to_send_nothing_home() -> None:
    asked = subprocess.run([sys.executable, "-c", ASK], env={}, check=True, capture_output=True, text=True)

    assert asked.stdout.strip() == "1"
