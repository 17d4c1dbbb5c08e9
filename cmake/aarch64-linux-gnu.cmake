# Builds for 64-bit ARM and runs the result under QEMU. `scripts/install.sh arm` installs all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Debian keeps the libraries of every architecture in one tree, /usr/lib/<architecture>. CMake takes
# that name from the compiler, so find_package never meets a library of this machine, and the
# emulated program finds its own from the root.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L / CACHE STRING "Runs what was built")
