"""The command as it was typed, for the report."""

import shlex

import typer

__all__ = ["command_line"]


def command_line(context: typer.Context) -> str:
    """Return the command with the parameters that were given."""
    words = ["treepurify", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0]] * (parameter.param_type_name == "option")
            words += [str(one)] * (one is not True)
    return shlex.join(words)
