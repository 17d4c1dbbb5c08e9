#!/usr/bin/env bash
# Installs what is missing, by package name. Safe to run again: what is there stays as it is.
#   scripts/install.sh [build] [test] [lint] [frameworks]      no argument: all of them
#
# frameworks: the Python packages that golden files come from, in .venv of this project. Everything
# runs on the CPU; where the Python index offers torch with CUDA (some GB), get the CPU build by
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu scripts/install.sh frameworks
set -euo pipefail
cd "$(dirname "$0")/.."

readonly REQUIREMENTS=scripts/requirements-frameworks.txt
missing=()  # packages, by Debian's names

# Tools are asked for their version: a launcher on the PATH may have nothing behind it.
need_tool() {  # command package
  "$1" --version >/dev/null 2>&1 || missing+=("$2")
}

need_library() {  # package header: either one tells that the library is there
  local package=$1 header=$2 prefix
  if command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2016  # dpkg-query's own variable
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' && return
  fi
  for prefix in /usr /usr/local /opt/homebrew; do
    [[ -e $prefix/include/$header ]] && return
  done
  missing+=("$package")
}

# The frameworks' wheels exist for these versions.
find_python() {
  local candidate
  for candidate in python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

install_missing() {
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    echo "install.sh: this is not a Debian system. Please install, by Debian's names:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
  local sudo=()
  if ((EUID != 0)); then
    sudo=(sudo)
  fi
  echo "install.sh: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
  missing=()
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  if [[ $(printf '%s\n' 3.21 "$version" | sort -V | head -n 1) != 3.21 ]]; then
    echo "install.sh: CMake 3.21 or newer is needed, found $version" >&2
    exit 1
  fi
}

install_frameworks() {
  local stamp=.venv/.requirements.sum sum python
  sum=$(cksum <"$REQUIREMENTS")
  if [[ -x .venv/bin/python && -e $stamp && $(<"$stamp") == "$sum" ]]; then
    return
  fi
  if ! .venv/bin/python -c '' 2>/dev/null; then
    if ! python=$(find_python); then
      missing+=(python3-venv)
      install_missing
      if ! python=$(find_python); then
        echo "install.sh: Python 3.11, 3.12 or 3.13 with venv is needed" >&2
        exit 1
      fi
    fi
    "$python" -m venv --clear .venv
  fi
  echo "install.sh: installing $REQUIREMENTS into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$REQUIREMENTS"
  echo "$sum" >"$stamp"
}

(($#)) || set -- build test lint frameworks
for group in "$@"; do
  case $group in
    build)
      need_tool g++ g++
      need_tool cmake cmake
      need_tool ninja ninja-build
      ;;
    test)
      need_tool python3 python3
      need_library libgtest-dev gtest/gtest.h
      need_library librapidcheck-dev rapidcheck.h
      need_library nlohmann-json3-dev nlohmann/json.hpp
      ;;
    lint)
      need_tool python3 python3
      need_tool clang-format clang-format
      need_tool clang-tidy clang-tidy
      ;;
    frameworks) ;;  # after the packages
    *)
      echo "install.sh: unknown group '$group': build, test, lint or frameworks" >&2
      exit 2
      ;;
  esac
done

install_missing
for group in "$@"; do
  case $group in
    build) check_cmake ;;
    frameworks) install_frameworks ;;
  esac
done
