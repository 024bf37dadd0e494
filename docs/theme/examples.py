"""For `make docs`: griffe knows a section `Examples:`, our docstrings have `Example:`."""

import griffe


class Examples(griffe.Extension):
    """Has the examples of a docstring shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rename the section before the docstring is read."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
