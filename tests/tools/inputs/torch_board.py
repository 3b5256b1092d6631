"""torch_board.py FOLDER: fails unless the Board of torch_rows.py in FOLDER has a fence between what it
writes and the number that announces it, and between the number that it sees and what it reads."""
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import torch_rows  # noqa: E402

log = []


class Noted:
    """Notes accesses to a view of the shared memory."""

    def __init__(self, view, kind):
        self.view, self.kind = view, kind

    def __getitem__(self, at):
        log.append(f"read {self.kind}")
        return self.view[at]

    def __setitem__(self, at, value):
        log.append(f"write {self.kind}")
        self.view[at] = value


class NotedBoard(torch_rows.Board):
    def fence(self):
        log.append("fence")
        super().fence()


def check_order():
    """Since the last fence there is nothing that must not be reordered with what comes now."""
    since, announcements = [], 0
    for entry in log:
        if entry == "fence":
            since = []
            continue
        kind = entry.split()[1]
        if entry == "write number":
            assert not any(other.endswith("data") for other in since), (entry, since)
            announcements += 1
        elif kind == "data":
            assert not any(other.endswith("number") for other in since), (entry, since)
        since.append(entry)
    log.clear()
    return announcements


with tempfile.NamedTemporaryFile() as file:
    file.truncate(torch_rows.Board.bytes(1))
    boards = [NotedBoard(file.name, 0, 1, 10) for _ in range(2)]
    for board in boards:
        board.words, board.times = Noted(board.words, "number"), Noted(board.times, "data")
        board.texts = Noted(board.texts, "data")
    teller, hearer = boards
    assert teller.gather([1.5, 2.5]) == [[1.5, 2.5]]
    assert check_order() == 2
    assert teller.agree("no") == "no"
    assert check_order() == 2
    teller.tell("a")
    assert hearer.hear() == "a"
    assert check_order() == 1
