"""The trial API's messages and services, generated from `protos/cogrs/api`.

Nothing is imported here: `from cogrs.api import common_pb2` loads what that module needs and no
more. `cogrs.api.any` helps with fields that hold a message of any type.
"""
