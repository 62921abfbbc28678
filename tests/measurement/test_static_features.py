"""Static features: from the compiler plugin through objects and libraries into one table."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_programs import VIRTUAL_CLASSES, toolchain
from test_wrapper import wrapper

from buran.campaign.plan import Mode
from buran.errors import BuildError, FormatError
from buran.measurement.backends.embedded import EmbeddedBackend
from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.static_features import (
    Call,
    Loop,
    StaticFeatures,
    StaticFunction,
    libraries_of,
    notes_on,
    read_static_features,
)
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN

FIRST = """\
static int helper(int n) { return n + 1; }
int nest(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        s += helper(i);
        for (int j = 0; j < n; j++)
            s += helper(j) + helper(s);
    }
    while (s > n) s /= 2;
    return s;
}
int straight(int n) {
    n += 1;
    n *= 2;
    return n;
}
"""
SECOND = """\
#include <stdio.h>
int nest(int), straight(int);
static int helper(int n) { for (; n > 9; n /= 2) ; return n; }
int (*chosen)(int) = straight;
int main(void) { printf("%d\\n", nest(3) + helper(4) + chosen(5)); return 0; }
"""


@pytest.fixture
def sources(tmp_path):
    if toolchain().kind != CLANG_PLUGIN:
        pytest.skip("needs clang and its headers")
    (tmp_path / "first.c").write_text(FIRST)
    (tmp_path / "second.c").write_text(SECOND)
    return tmp_path


def compile_with(folder, *arguments, **options):
    done = wrapper(folder, *arguments, tool="cc", **options)
    assert done.returncode == 0, done.stderr
    return done


def by_id(features):
    return {function.id: function for function in features.functions}


@pytest.mark.mpi
@pytest.mark.parametrize("flags", [("-O0", "-g"), ("-O3",)])
def test_features_are_those_of_the_source(sources, flags):
    compile_with(sources, *flags, "first.c", "second.c", "-o", "program")
    features = read_static_features(sources / "program", sources)
    functions = by_id(features)
    assert set(functions) == {"nest", "straight", "main", "helper@first.c", "helper@second.c"}
    assert features.units == ("first.c", "second.c")
    nest = functions["nest"]
    assert [(loop.line, loop.depth) for loop in nest.loops] == [(4, 1), (6, 2), (9, 1)]
    assert nest.calls == (Call("helper@first.c", 1, 1), Call("helper@first.c", 2, 2))
    assert (nest.file, nest.line, nest.name, nest.linkage) == ("first.c", 2, "nest", "external")
    assert set(functions["main"].calls) == {
        Call("nest", 0, 1),
        Call("helper@second.c", 0, 1),
        Call("*", 0, 1, "i32(i32)"),
        Call("printf", 0, 1),
    }
    assert functions["straight"].blocks == 1 and functions["straight"].loops == ()
    assert functions["straight"].statements == 3  # 13, 14 and 15: a parameter has no line of its own
    assert functions["nest"].statements == 8  # 3 to 10: the jump back stands at the closing brace
    assert functions["helper@second.c"].loops == (Loop(3, 1, 3),)


@pytest.mark.mpi
def test_without_line_tables_statements_are_missing_and_not_zero(sources):
    compile_with(sources, "-g0", "first.c", "second.c", "-o", "program")
    functions = by_id(read_static_features(sources / "program", sources))
    assert functions["straight"].statements is None and functions["straight"].line == 0
    assert len(functions["nest"].loops) == 3
    assert "helper@first.c" in functions


@pytest.mark.mpi
def test_libraries_bring_their_own_features(sources):
    compile_with(sources, "-fPIC", "-shared", "first.c", "-o", "libfirst.so")
    compile_with(sources, "second.c", "libfirst.so", "-Wl,-rpath,$ORIGIN", "-o", "program")
    assert libraries_of(sources / "program", sources) == ((sources / "libfirst.so").resolve(),)
    assert {"nest", "main", "helper@first.c"} <= set(by_id(read_static_features(sources / "program", sources)))
    compile_with(sources, "-c", "first.c")
    subprocess.run(["ar", "rcs", sources / "libstatic.a", sources / "first.o"], check=True)
    compile_with(sources, "second.c", "libstatic.a", "-o", "other")
    assert {"nest", "main"} <= set(by_id(read_static_features(sources / "other", sources)))


@pytest.mark.mpi
def test_rules_that_match_nothing_are_found_over_all_objects(sources):
    text = "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE main misspelt\nINCLUDE nest\nSCOREP_REGION_NAMES_END\n"
    text += "SCOREP_FILE_NAMES_BEGIN\nEXCLUDE */third.c\nSCOREP_FILE_NAMES_END\n"
    path = sources / "filter"
    path.write_text(text)
    compile_with(sources, "first.c", "second.c", "-o", "program", BURAN_FILTER=str(path))
    features = read_static_features(sources / "program", sources)
    assert features.unmatched_lines == (3, 7)
    assert {function.id for function in features.functions if function.hooked} == {"main", "nest"}
    notes = notes_on(features, text)
    assert any("line 3 (" in note for note in notes)
    assert any("line 7 (EXCLUDE */third.c)" in note for note in notes)


def test_of_a_constructor_one_symbol_that_is_there_is_enough():
    unknown = ("a.cc", 1, "a.cc", "external", False, True, 1, 1, None, 0, "", False, (), ())
    emitted = StaticFunction("_ZN1SC2Ev", "S::S()", "_ZN1SC2Ev", *unknown)
    text = "SCOREP_REGION_NAMES_BEGIN\nINCLUDE MANGLED _ZN1SC1Ev\nINCLUDE MANGLED _ZN1TC1Ev\nSCOREP_REGION_NAMES_END\n"
    (note,) = notes_on(StaticFeatures((emitted,), ("a.cc",), (2, 3), ()), text)
    assert "_ZN1TC1Ev" in note


@pytest.mark.mpi
def test_objects_of_different_filters_are_refused(sources):
    for name, rule in (("first", "EXCLUDE nest"), ("second", "EXCLUDE main")):
        path = sources / f"{name}.filter"
        path.write_text(f"SCOREP_REGION_NAMES_BEGIN\n{rule}\nSCOREP_REGION_NAMES_END\n")
        compile_with(sources, "-c", f"{name}.c", BURAN_FILTER=str(path))
    compile_with(sources, "first.o", "second.o", "-o", "program")
    with pytest.raises(BuildError, match="different filters"):
        read_static_features(sources / "program", sources)


@pytest.mark.mpi
def test_code_compiled_without_the_wrappers_is_noticed(sources):
    own = {function.name for path in toolchain().objects["effort"] for function in Elf.read(Path(path)).functions or ()}

    def features(plain):
        for name in ("first", "second"):
            compile_with(sources, "-c", f"{name}.c", mode="vanilla" if name in plain else "effort")
        compile_with(sources, "first.o", "second.o", "-o", "program")
        return read_static_features(sources / "program", sources, own)

    assert features(()).foreign == ()
    assert notes_on(features(())) == ()
    assert features(("first",)).foreign == ("nest", "straight")
    assert notes_on(features(("first",)))[0].endswith(": nest, straight")
    assert features(("second",)).foreign == ("main",)
    assert "main function" in notes_on(features(("second",)))[0]
    assert features(("first", "second")) is None
    features(())
    subprocess.run(["strip", sources / "program"], check=True)
    stripped = read_static_features(sources / "program", sources, own)
    assert stripped.foreign is None and "main" in by_id(stripped)
    assert "stripped" in notes_on(stripped)[0]


@pytest.mark.mpi
def test_features_survive_their_file(sources):
    compile_with(sources, "first.c", "second.c", "-o", "program")
    features = read_static_features(sources / "program", sources)
    text = features.to_jsonl()
    assert StaticFeatures.from_jsonl(text) == features
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', "no json"])
def test_foreign_files_are_refused(text):
    with pytest.raises(FormatError, match="no static features"):
        StaticFeatures.from_jsonl(text, "somewhere")


def test_constructors_and_templates_are_known(tmp_path):
    if toolchain().kind != CLANG_PLUGIN:
        pytest.skip("needs clang and its headers")
    (tmp_path / "a.cpp").write_text(VIRTUAL_CLASSES)
    done = wrapper(tmp_path, "a.cpp", "-o", "program", tool="cxx")
    assert done.returncode == 0, done.stderr
    own = {f.name for path in toolchain().objects["effort"] for f in Elf.read(Path(path)).functions or ()}
    features = read_static_features(tmp_path / "program", tmp_path, own)
    assert features.foreign == ()
    (main,) = (function for function in features.functions if function.id == "main")
    assert any(call.callee == "*" and call.depth == 1 for call in main.calls)


@pytest.mark.mpi
def test_a_build_is_inspected(sources):
    backend = EmbeddedBackend(toolchain(), sources / "toolchain.json")
    rules = "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE main misspelt\nSCOREP_REGION_NAMES_END\n"
    (sources / "filter").write_text(rules)
    compile_with(sources, "first.c", "second.c", "-o", "program", BURAN_FILTER=str(sources / "filter"))
    features, notes = backend.inspect_build(sources / "program", sources, rules, Mode.TIME)
    assert "main" in by_id(features)
    assert len(notes) == 1 and "misspelt" in notes[0]
    for mode in ("vanilla", "effort"):  # compiled without the wrappers, linked with and without them
        compile_with(sources, "-c", "first.c", "second.c", mode="vanilla")
        compile_with(sources, "first.o", "second.o", "-o", "program", mode=mode)
        with pytest.raises(BuildError, match="Buran's wrappers"):
            backend.inspect_build(sources / "program", sources, "", Mode.TIME)
    (sources / "start.sh").write_text("#!/bin/sh\nexec ./program\n")
    features, notes = backend.inspect_build(sources / "start.sh", sources, "", Mode.TIME)
    assert features is None and "is a script" in notes[0]


# ---- ELF files


@settings(max_examples=200)
@given(st.data())
def test_damaged_programs_are_refused_or_read(data):
    whole = Path(sys.executable).resolve().read_bytes()[: 64 + 4096]
    sections = 64 + data.draw(st.integers(0, 4096))
    head = bytearray(whole)
    struct.pack_into("<Q", head, 40, sections)
    struct.pack_into("<HHH", head, 58, data.draw(st.integers(0, 80)), data.draw(st.integers(0, 40)), 2)
    at = data.draw(st.integers(16, len(head) - 1))
    head[at] = data.draw(st.integers(0, 255))
    file = Elf(Path("damaged"), bytes(head[: data.draw(st.integers(64, len(head)))]))
    for ask in (lambda: file.sections, lambda: file.section(".text"), lambda: file.needed, lambda: file.functions):
        try:
            ask()
        except FormatError as error:
            assert "damaged" in str(error)


def test_a_script_is_no_program(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n" + "#" * 100)
    with pytest.raises(FormatError, match="no ELF header"):
        Elf.read(tmp_path / "script")
    with pytest.raises(FormatError, match="cannot be read"):
        Elf.read(tmp_path / "missing")
