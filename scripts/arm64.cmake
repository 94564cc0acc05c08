# How CMake compiles Bitcoin Core's engine for arm64, with the compilers of Debian's g++-aarch64-linux-gnu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Only headers of Boost are used, and these are the same for every processor.
file(GLOB Boost_DIR /usr/lib/*/cmake/Boost-*)
list(GET Boost_DIR 0 Boost_DIR)

include("${CMAKE_CURRENT_LIST_DIR}/core.cmake")
