"""`tvm.error`: errors under TVM's names."""

from __future__ import annotations

from intset.errors import InputError, IntSetError

TVMError = InternalError = RPCError = IntSetError
OpError = OpNotImplemented = OpAttributeInvalid = DiagnosticError = InputError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "TVMError",
]
