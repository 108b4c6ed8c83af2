"""Protocol Buffers message classes declared field by field, without generated code."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
Kind = int | str | list[int] | list[str]


def message_class(root: str, messages: Mapping[str, Mapping[str, tuple[int, Kind]]]) -> Any:
    """The class of the message `root`.

    Args:
        root: one of the messages.
        messages: {message: {field: (number, kind)}}. A kind is a type of FIELD, such as FIELD.TYPE_INT64, or the name
            of a message; in a list if it is repeated. Undeclared fields are ignored.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"bert_tf/{root}.proto", package="bert_tf")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = FIELD.LABEL_REPEATED if isinstance(kind, list) else FIELD.LABEL_OPTIONAL
            entry = message.field.add(name=field, number=number, label=label)
            single = kind[0] if isinstance(kind, list) else kind
            if isinstance(single, int):
                entry.type = single
            else:
                entry.type, entry.type_name = FIELD.TYPE_MESSAGE, single
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bert_tf.{root}"))
