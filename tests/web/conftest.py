import pytest

for module in ("starlette", "uvicorn", "websockets", "PIL", "gymnasium"):
    pytest.importorskip(module)
