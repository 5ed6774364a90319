"""repack.py - the same model with all matrices in another format of blocks.

    repack.py MODEL.gguf OUT.gguf Q8_0

Formats that the package `gguf` can write: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Vectors stay
as they are.

SPDX-License-Identifier: MIT
"""

import sys

import gguf


def copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)


def main() -> None:
    source, target, name = sys.argv[1:]
    kind = gguf.GGMLQuantizationType[name]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    for tensor in reader.tensors:
        data, own = tensor.data, tensor.tensor_type
        if len(tensor.shape) > 1:
            numbers = gguf.dequantize(data, own).reshape(tuple(int(n) for n in reversed(tensor.shape)))
            data, own = gguf.quantize(numbers, kind), kind
        writer.add_tensor(tensor.name, data, raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
