"""make_gguf.py - the model's weights as F32 and as Q8_0, for programs that read the same file.

    python make_gguf.py MODEL.gguf F32.gguf Q8_0.gguf

Metadata are copied; matrices are dequantised by the `gguf` package and written plain, or packed again
to Q8_0. Norms stay F32.

SPDX-License-Identifier: MIT
"""

import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType, GGUFWriter


def copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)


def write(reader: GGUFReader, path: str, form: T) -> None:
    writer = GGUFWriter(path, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(tensor.shape) > 1 and form != T.F32:
            writer.add_tensor(tensor.name, gguf.quantize(numbers, form), raw_dtype=form)
        else:
            writer.add_tensor(tensor.name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


reader = GGUFReader(sys.argv[1])
write(reader, sys.argv[2], T.F32)
write(reader, sys.argv[3], T.Q8_0)
