from freki.cli.demo import next_steps
from freki.infra.settings import ServeSettings, Settings


def test_the_demo_ends_with_how_to_open_the_page() -> None:
    steps = next_steps("bin/freki", Settings(serve=ServeSettings(port=9999)))

    commands = [step.partition("#")[0].split() for step in steps]
    assert ["bin/freki", "serve"] in commands
    assert any("http://127.0.0.1:9999/" in step for step in steps)
