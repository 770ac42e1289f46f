#!/bin/sh
# Which lines of C++ the tests reach: tools/coverage-cpp.sh PYTHON, from `make coverage`, with gcovr. The tests run on a copy
# of the package whose modules count their lines; report in build/coverage/cpp.html.
set -eu
python=$1
here=$(cd "$(dirname "$0")/.." && pwd)
build="$here/build/coverage-cpp"

cmake -S "$here" -B "$build" -DPython_EXECUTABLE="$(command -v "$python")" -DPRUNEFL_COVERAGE=ON \
    -DCMAKE_BUILD_TYPE=None >/dev/null
cmake --build "$build" --parallel 2
rm -rf "$build/package"
find "$build" -name '*.gcda' -delete
mkdir -p "$build/package" "$here/build/coverage"
cp -R "$here/src/prunefl" "$build/package/"
find "$build/package" -name '*.so' -delete
find "$build/src" -name '_*.so' -exec cp {} "$build/package/prunefl/" \;

# One process: a worker of pytest-xdist ends without writing down what it counted. Without `site` an editable install does
# not come before the copy; so that what starts Python anew to see what it loads is left out.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
PYTHONPATH="$build/package:$packages" "$python" -S -m pytest -p no:cacheprovider "$here/tests/kernels" "$here/tests/core" \
    "$here/tests/wire" "$here/tests/local" -k "not memory and not bench and not without_torch"
# a line of a template counts once, however many functions are made of it
"$python" -m gcovr --root "$here" --filter "$here/src/(kernels|coding|core)/" --object-directory "$build" \
    --gcov-ignore-parse-errors=negative_hits.warn --exclude-throw-branches --merge-lines --html-details "$here/build/coverage/cpp.html" \
    --txt --fail-under-line 90
