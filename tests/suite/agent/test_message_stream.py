"""Messages between controller and agents, mixed with the lines of a login shell."""

import io

import pytest

from suite.agent.message_stream import MessageStream


@pytest.mark.parametrize(
    "banner", [b"Welcome to node1", b"[" * 100_000, b"\xff\xfe", b"17"], ids=range(4)
)
def test_a_line_of_another_program_is_kept_and_does_not_end_the_stream(banner):
    stream = MessageStream(io.BytesIO(banner + b'\n{"kind":"hello"}\n'), io.BytesIO())
    assert list(stream.received(5.0)) == [{"kind": "hello"}]
    assert stream.ended.wait(5.0)
    assert stream.strange == [banner.decode(errors="replace")]
    stream.close()
