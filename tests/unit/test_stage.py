from freki.streams.stage import Progress


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_stage_with_nothing_to_do_never_stalls() -> None:
    clock = Clock()
    progress = Progress(clock)

    for _ in range(100):
        clock.now_s += 50
        progress.seen(backlog=False)

    assert not progress.stalled


def test_a_stage_stalls_when_records_wait_and_no_batch_begins() -> None:
    clock = Clock()
    progress = Progress(clock)

    clock.now_s = 50
    progress.seen(backlog=True)
    early = progress.stalled
    clock.now_s = 70
    progress.seen(backlog=True)

    assert (early, progress.stalled) == (False, True)


def test_a_batch_at_hand_has_more_time_but_not_for_ever() -> None:
    clock = Clock()
    progress = Progress(clock)

    progress.began()
    clock.now_s = 3000
    progress.seen(backlog=True)
    early = progress.stalled
    clock.now_s = 4000

    assert (early, progress.stalled) == (False, True)


def test_nothing_waiting_is_no_excuse_for_a_batch_that_hangs() -> None:
    clock = Clock()
    progress = Progress(clock)

    progress.began()
    clock.now_s = 4000
    progress.seen(backlog=False)

    assert progress.stalled


def test_the_end_of_a_batch_counts_as_progress() -> None:
    clock = Clock()
    progress = Progress(clock)

    progress.began()
    clock.now_s = 3000
    progress.ended()
    clock.now_s = 3050

    assert not progress.stalled
