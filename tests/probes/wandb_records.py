"""Prints the records of a `.wandb` file as JSON, after a check of each checksum.

python -m tests.probes.wandb_records FILE
"""

import json
import struct
import sys
import zlib
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from wandb.proto.wandb_internal_pb2 import Record

data, at, whole, found = Path(sys.argv[1]).read_bytes(), 7, b"", []
assert data[:7] == b":W&B\xe1\xbe\x00", "expected the file header of wandb 0.31"
while at < len(data):
    if (left := 32768 - at % 32768) < 7:
        assert not any(data[at : at + left])
        at += left
        continue
    checksum, length, kind = struct.unpack_from("<IHB", data, at)
    piece = data[at + 7 : at + 7 + length]
    assert checksum == zlib.crc32(bytes([kind]) + piece)
    assert length <= left - 7
    assert (kind in (1, 2)) == (not whole)
    whole, at = whole + piece, at + 7 + length
    if kind in (1, 4):
        found.append(MessageToDict(Record.FromString(whole), preserving_proto_field_name=True))
        whole = b""
assert not whole
print(json.dumps(found))
