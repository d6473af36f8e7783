"""The exceptions of cubit: one class per status code, each with the library's sentence.

`str(error)` is the whole sentence; `what`, `why` and `remedy` are its three parts: what was given, the rule that it
breaks, and what is accepted.
"""


class Error(Exception):
    """A call of cubit failed."""

    status = 0

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        self.what, self.why, self.remedy = what, why, remedy
        super().__init__(": ".join(filter(None, (what, why))) + (f"; {remedy}" if remedy else ""))


class InvalidArgumentError(Error, ValueError):
    """An argument, option or environment variable has a value that is not accepted."""

    status = 1


class UnsupportedError(Error):
    """The request is well formed, but this operator or architecture has no kernel for it."""

    status = 2


class NotCachedError(Error):
    """The engine may not compile, and no cache or bundle has the kernel."""

    status = 3


class CompileError(Error):
    """The compiler rejected the source; the sentence contains the compiler's log."""

    status = 4


class CompilerUnavailableError(Error):
    """This machine has no usable NVRTC."""

    status = 5


class DriverUnavailableError(Error):
    """This machine has no CUDA driver or no GPU."""

    status = 6


class DeviceError(Error, RuntimeError):
    """The device reported an error."""

    status = 7


class NotResidentError(Error):
    """A captured launch used a kernel that was not prepared on the device."""

    status = 8


class IoError(Error, OSError):
    """A file or folder could not be read or written."""

    status = 9


class InternalError(Error):
    """A bug in cubit, or an allocation of host memory failed."""

    status = 10


BY_STATUS = {kind.status: kind for kind in Error.__subclasses__()}
