"""Plugins: found by their files, loaded by name, added from outside."""

import sys

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import plugins, tensorflow_startup


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Packages `tools` and `toolbox` with hammer and broken, `more` in place of extras, `my_lab` outside with saw."""
    files = {
        "tools/__init__.py": "raise AssertionError('names() imports nothing')",
        "tools/hammer.py": "raise AssertionError('names() imports nothing')",
        "tools/broken.py": "",
        "tools/_private.py": "",
        "toolbox/__init__.py": "",
        "toolbox/hammer.py": "USE = 'nails'",
        "toolbox/broken.py": "import a_package_that_is_missing",
        "more/__init__.py": "",
        "more/toolbox/__init__.py": "",
        "more/toolbox/drill.py": '"""Makes holes."""\nUSE = "walls"',
        "my_lab/__init__.py": "",
        "my_lab/saw.py": "USE = 'wood'",
        "my_lab/broken.py": "import my_lab.part_that_is_missing",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tools", "toolbox", "more", "my_lab")]:
        del sys.modules[name]


def test_members_are_listed_without_importing_them(tools):
    assert plugins.names("tools") == ["broken", "hammer"]
    assert not {"tools", "tools.hammer"} & set(sys.modules)


def test_member_is_loaded_by_name_and_outside_module_by_dotted_name(tools):
    assert plugins.load("toolbox", "hammer").USE == "nails"
    assert plugins.load("toolbox", "my_lab.saw").USE == "wood"


def test_folder_of_the_same_name_in_extras_has_more_members(tools, monkeypatch):
    monkeypatch.setattr(plugins, "EXTRAS", "more")
    assert plugins.names("toolbox") == ["broken", "drill", "hammer"]
    assert plugins.docstring("toolbox", "drill") == "Makes holes." and "more.toolbox.drill" not in sys.modules
    assert plugins.load("toolbox", "drill").USE == "walls" and plugins.names("tools") == ["broken", "hammer"]


@pytest.mark.parametrize(
    "name", ["saw", "my_lab.none", "no_lab.saw", ".hammer", "my_lab.", "my_lab..saw", "", "_private"]
)
def test_unknown_name_error_lists_known_names(tools, name):
    with pytest.raises(UserError) as error:
        plugins.load("toolbox", name, kind="tool")
    hint = "Did you mean hammer? " if name == ".hammer" else ""
    assert str(error.value) == f"There is no tool {name!r}. {hint}Known: broken, hammer."


def test_closed_set_has_no_modules_from_outside(tools):
    assert plugins.member("toolbox", "hammer", kind="tool").USE == "nails"
    with pytest.raises(UserError, match="There is no tool 'my_lab.saw'"):
        plugins.member("toolbox", "my_lab.saw", kind="tool")


@pytest.mark.parametrize("name, missing", [("broken", "a_package"), ("my_lab.broken", "my_lab.part")])
def test_import_error_inside_a_member_is_not_an_unknown_name(tools, name, missing):
    with pytest.raises(ModuleNotFoundError, match=missing):
        plugins.load("toolbox", name)


def test_messages_of_an_import_from_outside_are_silenced_as_those_of_tensorflow(tmp_path, monkeypatch, capfd):
    (tmp_path / "outside_lab.py").write_text("import os\nos.write(2, b'oneDNN is on')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setitem(tensorflow_startup._process, "is_silenced", True)
    assert plugins.import_outside("outside_lab").__name__ == "outside_lab"
    assert capfd.readouterr().err == ""
