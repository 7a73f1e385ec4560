"""The one family of errors that users see: each message says what is wrong, where, and how to mend it."""


class GemlineError(Exception):
    """A fault that the user can mend; its message is one clear sentence, shown without a stack trace."""


class WorldError(GemlineError):
    """A world file is missing, malformed or inconsistent."""


class GateClosed(GemlineError):
    """A day was asked for that no ledger row declares readable."""


class QualityFailed(GemlineError):
    """A day's rows broke a critical expectation, so nothing of it was published."""


class Busy(GemlineError):
    """Another process holds the world's writer lock."""
