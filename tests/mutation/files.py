"""What a mixer consists of, read off the import statements: nothing is imported here."""

import ast
import pathlib

PACKAGE = "convnlp.layers"
# What all layers share; it has tests of its own.
SHARED = ("token_mixer", "checks", "costs", "dropout", "projection", "feed_forward", "states")
# What a mixer is handed, and need not import, by a method of it: the name of the class, and where it is.
HANDED = dict.fromkeys(("visible_keys", "text_ids"), ("Masks", "convnlp/layers/masks.py"))


def mixer_names(root):
    """The names of the mixers, which are those of their files."""
    return list(_mixers(root))


def parts_of(root, mixer):
    """What a mixer is made of, nearest first.

    Args:
        root: pathlib.Path of the tree.
        mixer: str, a key of `MIXERS`.

    Returns:
        Dict, path relative to the root -> set of the classes and functions in it that the mixer uses.
    """
    module, cls = _mixers(root)[mixer]
    parts, waiting = {}, [(module, {cls})]
    while waiting:
        module, names = waiting.pop(0)
        path = str(pathlib.Path(*module.split(".")).with_suffix(".py"))
        used, words = _used(root / path, names)
        parts[path] = parts.get(path, set()) | used
        for cls, where in (HANDED[word] for word in words & set(HANDED)):
            parts[where] = parts.get(where, set()) | {cls}
        for other, imported in _imports(root / path):
            known = parts.get(str(pathlib.Path(*other.split(".")).with_suffix(".py")), set())
            if other.split(".")[-1] not in SHARED and (new := (set(imported) & words) - known):
                waiting.append((other, new))
    return parts


def _used(path, names):
    """Of a file, the definitions that those names lead to, and all words in them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    used, words, waiting = set(), set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in defined and name not in used:
            used.add(name)
            for node in ast.walk(defined[name]):
                if isinstance(node, ast.Name):
                    words.add(node.id)
                    waiting.append(node.id)
                elif isinstance(node, ast.Attribute):
                    words.add(node.attr)
    return used, words


def _mixers(root):
    """Name of a mixer -> (its module, its class), as the table of mixers imports them."""
    imported = _imports(root / "convnlp" / "layers" / "mixers" / "__init__.py")
    own = ((module, names) for module, names in imported if module.startswith(f"{PACKAGE}.mixers."))
    return {module.split(".")[-1]: (module, cls) for module, (cls,) in own}


def _imports(path):
    """The modules of the package that a file imports from, with the names."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            yield node.module, [alias.name for alias in node.names]
