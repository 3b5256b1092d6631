"""A GPU for each rank. A capture notes what is called; if that fails, its end fails, too."""
import contextlib
import os

capturing = None


class CUDAGraph:
    def __init__(self):
        self.commands = []

    def replay(self):
        assert self.commands, "expected something to replay"
        assert os.environ.get("STUB_TORCH") != "uncapturable", "waits for a rank for ever"


def note(command):
    if capturing:
        capturing.commands.append(command)


@contextlib.contextmanager
def graph(cuda_graph, pool, capture_error_mode):
    global capturing
    capturing = cuda_graph
    try:
        yield
    except Exception:
        raise RuntimeError("the capture was invalidated")
    finally:
        capturing = None


class Event:
    """Two of them are a millisecond apart."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        assert not capturing

    def elapsed_time(self, _):
        return 1.0


class Stream:
    def wait_stream(self, _):
        pass


def current_stream():
    return Stream()


def stream(_):
    return contextlib.nullcontext()


def device_count():
    return int(os.environ["WORLD_SIZE"])


def get_device_name(_):
    return "a GPU"


def synchronize():
    pass


set_device, empty_cache = get_device_name, synchronize
