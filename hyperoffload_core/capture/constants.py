"""MindIR attribute and tensor messages as Python values.

The numbers of data types are those of ``TensorProto.DataType`` in MindSpore's ``mind_ir.proto``; MindIR keeps the
value of a scalar in ``i``/``ints``, ``f``/``floats`` or ``d``/``doubles`` depending on whether it stands in a tuple.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore.common.np_dtype import bfloat16
from mindspore.train.mind_ir_pb2 import AttributeProto, TensorProto
from numpy.typing import NDArray

from hyperoffload_core.capture.errors import CaptureError

_DTYPES: dict[int, tuple[str, Any]] = {
    TensorProto.FLOAT: ("float32", np.float32),
    TensorProto.FLOAT16: ("float16", np.float16),
    TensorProto.BFLOAT16: ("bfloat16", bfloat16),
    TensorProto.DOUBLE: ("float64", np.float64),
    TensorProto.FLOAT64: ("float64", np.float64),
    TensorProto.INT8: ("int8", np.int8),
    TensorProto.INT16: ("int16", np.int16),
    TensorProto.INT32: ("int32", np.int32),
    TensorProto.INT64: ("int64", np.int64),
    TensorProto.UINT8: ("uint8", np.uint8),
    TensorProto.UINT16: ("uint16", np.uint16),
    TensorProto.UINT32: ("uint32", np.uint32),
    TensorProto.UINT64: ("uint64", np.uint64),
    TensorProto.BOOL: ("bool", np.bool_),
    TensorProto.COMPLEX64: ("complex64", np.complex64),
    TensorProto.COMPLEX128: ("complex128", np.complex128),
}
_ITEM_BYTES = {name: np.dtype(kind).itemsize for name, kind in _DTYPES.values()}

_INTEGERS = frozenset(getattr(AttributeProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
_FLOATS = frozenset((AttributeProto.FLOAT, AttributeProto.FLOAT16, AttributeProto.BFLOAT16))
_TYPE_NAMES: dict[int, str] = {
    number: {"float": "float32", "double": "float64"}.get(name.lower(), name.lower())
    for name, number in AttributeProto.AttributeType.items()
}


class TypeConstant(str):
    """A MindSpore type used as an argument; the text is its lower-case name."""


def dtype_name(tensor: Any, where: str) -> str:
    """Lower-case MindSpore name of the tensor's data type. Raises `CaptureError` for a type no kernel here has."""
    if tensor.data_type not in _DTYPES:
        raise CaptureError(f"{where}: tensors of data type number {tensor.data_type} are not supported")
    return _DTYPES[tensor.data_type][0]


def mindspore_dtype(name: str) -> Any:
    """The MindSpore type of a lower-case name."""
    return getattr(ms, "bool_" if name == "bool" else name)


def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a contiguous tensor."""
    return int(np.prod(shape, dtype=np.int64)) * _ITEM_BYTES[dtype]


def static_shape(tensor: Any, where: str) -> tuple[int, ...]:
    """The tensor's shape. Raises `CaptureError` when a dimension is only known at run time."""
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape) or tensor.min_dims or tensor.max_dims:
        raise CaptureError(f"{where} has the dynamic shape {shape}; capture needs shapes that are known before the run")
    return shape


def array(tensor: Any, where: str) -> NDArray[Any]:
    """The value of a constant tensor."""
    name = dtype_name(tensor, where)
    kind = _DTYPES[tensor.data_type][1]
    shape = static_shape(tensor, where)
    if len(tensor.raw_data) != tensor_bytes(shape, name):
        raise CaptureError(f"{where}: MindSpore exported no value for a constant of shape {shape}, type {name}")
    return np.frombuffer(tensor.raw_data, dtype=kind).reshape(shape).copy()


def attribute_value(attribute: Any, where: str) -> Any:
    """The Python value of an attribute: number, bool, string, None, array, `TypeConstant`, or tuple of those."""
    kind = attribute.type
    if kind in (AttributeProto.TUPLE, AttributeProto.LIST):
        return tuple(attribute_value(v, where) for v in attribute.values)
    if kind == AttributeProto.TENSORS and len(attribute.tensors) == 1:
        return array(attribute.tensors[0], where)
    if kind == AttributeProto.NONE:
        return None
    if kind == AttributeProto.STRING:
        text = attribute.s if attribute.HasField("s") else _only(attribute.strings, where)
        return text.decode()
    if kind == AttributeProto.BOOL and (attribute.HasField("i") or attribute.ints):
        return bool(attribute.i if attribute.HasField("i") else attribute.ints[0])
    if kind in _INTEGERS and (attribute.HasField("i") or attribute.ints):
        return attribute.i if attribute.HasField("i") else attribute.ints[0]
    if kind in _FLOATS and (attribute.HasField("f") or attribute.floats):
        return attribute.f if attribute.HasField("f") else attribute.floats[0]
    if kind == AttributeProto.DOUBLE and (attribute.HasField("d") or attribute.doubles):
        return attribute.d if attribute.HasField("d") else attribute.doubles[0]
    if kind in _TYPE_NAMES and _TYPE_NAMES[kind] in _ITEM_BYTES:
        return TypeConstant(_TYPE_NAMES[kind])
    raise CaptureError(f"{where}: constants of kind {AttributeProto.AttributeType.Name(kind)} are not supported")


def _only(values: Any, where: str) -> Any:
    if len(values) != 1:
        raise CaptureError(f"{where}: a string constant without its text")
    return values[0]


def array_dtype(value: NDArray[Any]) -> str:
    """Lower-case MindSpore name of an array's data type."""
    return next(name for name, kind in _DTYPES.values() if np.dtype(kind) == value.dtype)
