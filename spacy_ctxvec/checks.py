"""Checks of settings, which name the field, what was found there and what was expected."""

from __future__ import annotations

from . import errors


def check(settings: object, field: str, holds: bool, expected: str) -> None:
    """CtxvecError that names a field of `settings`, unless what is required of it holds."""
    if not holds:
        raise bad_setting(field, getattr(settings, field), expected)


def check_count(settings: object, field: str, least: int, expected: str = "") -> None:
    """CtxvecError unless a field holds a whole number, `least` or more."""
    holds = is_count(getattr(settings, field), least)
    check(settings, field, holds, expected or f"a whole number, {least} or more")


def is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def bad_setting(field: str, found: object, expected: str) -> errors.CtxvecError:
    message = errors.BAD_SETTING.format(field=field, found=found, expected=expected)
    return errors.CtxvecError(message)
