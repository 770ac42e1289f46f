# How CMake compiles for aarch64: Debian's cross compiler, and the headers of the Python that setup.sh unpacked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT "-idirafter ${CMAKE_CURRENT_LIST_DIR}/../../build/arm64/root/usr/include")
# Python's own script runs the emulator; libraries are looked for as the compiler does.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
