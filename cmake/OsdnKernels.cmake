# The CUDA kernels: kernels/<op>/*.cu without tensor headers -> osdn_kernels.
# Without a CUDA compiler the library holds the twins instead, kernels/no_cuda.cpp
# and kernels/<op>/no_cuda.cpp: every launcher, throwing.

add_library(osdn_kernels STATIC)
target_include_directories(osdn_kernels PUBLIC
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_link_libraries(osdn_kernels PRIVATE $<BUILD_INTERFACE:osdn_flags>)
set_target_properties(osdn_kernels PROPERTIES LINKER_LANGUAGE CXX)

if(OSDN_HAVE_CUDA)
  # CMake 3.25 knows no C++20 flag of nvcc 13 and would not write sm_90a as
  # -gencode, without which nvcc also builds a compute_90 variant that fails.
  set(CMAKE_CUDA_ARCHITECTURES OFF CACHE STRING "Given as -gencode instead" FORCE)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  if(OSDN_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${OSDN_CCACHE}")
  endif()

  # Flags of every target with .cu files.
  add_library(osdn_cuda_flags INTERFACE)
  target_compile_options(osdn_cuda_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-gencode=arch=compute_90a,code=sm_90a;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>")
  if(OSDN_WERROR)
    target_compile_options(osdn_cuda_flags INTERFACE
      "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>")
  endif()

  file(GLOB _kernel_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/kernels/*/*.cu")
  target_sources(osdn_kernels PRIVATE ${_kernel_sources})
  # For other GPUs from 8.0 on, as PTX that the driver compiles: all but the
  # chunk version of the delta rule, which is written for sm_90a.
  foreach(_source IN LISTS _kernel_sources)
    if(NOT _source MATCHES "/chunk[^/]*\\.cu$")
      set_property(SOURCE "${_source}" APPEND PROPERTY
        COMPILE_OPTIONS "-gencode=arch=compute_80,code=compute_80")
    endif()
  endforeach()
  target_link_libraries(osdn_kernels PRIVATE $<BUILD_INTERFACE:osdn_cuda_flags>)
  set_target_properties(osdn_kernels PROPERTIES
    CUDA_STANDARD 20 CUDA_EXTENSIONS OFF CUDA_ARCHITECTURES OFF)
  target_link_libraries(osdn_kernels PUBLIC $<BUILD_INTERFACE:CUDA::cudart_static>)
else()
  file(GLOB _kernel_sources CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/kernels/no_cuda.cpp" "${CMAKE_SOURCE_DIR}/kernels/*/no_cuda.cpp")
  target_sources(osdn_kernels PRIVATE ${_kernel_sources})
endif()

# ---- tests on the GPU ---------------------------------------------------------
# One program that needs a driver and nothing else, run by scripts/gpu_test.sh.
if(BUILD_TESTING AND OSDN_HAVE_CUDA)
  file(GLOB _gpu_test_sources CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/tests/gpu/*.cpp" "${CMAKE_SOURCE_DIR}/tests/gpu/*.cu")
  add_executable(osdn_gpu_tests EXCLUDE_FROM_ALL ${_gpu_test_sources})
  target_include_directories(osdn_gpu_tests PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(osdn_gpu_tests PRIVATE osdn_flags osdn_cuda_flags
    osdn_kernels GTest::gtest_main Threads::Threads
    -static-libstdc++ -static-libgcc)
  set_target_properties(osdn_gpu_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endif()

# ---- kernels of the delta rule and of decoding without a GPU ------------------------
# Built by the host compiler on top of tests/gpu/cuda_emulator.h, for the tests
# in tests/emulated. Its threads are fibers, which address sanitizers misread.
if(BUILD_TESTING AND NOT OSDN_SANITIZE)
  file(GLOB _emulated CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/kernels/delta_rule/*.cu" "${CMAKE_SOURCE_DIR}/kernels/decode/*.cu")
  set(_wrappers "")
  foreach(_source IN LISTS _emulated)
    get_filename_component(_name "${_source}" NAME_WE)
    set(_wrapper "${CMAKE_BINARY_DIR}/emulated/${_name}.cpp")
    file(CONFIGURE OUTPUT "${_wrapper}" CONTENT "#include \"${_source}\"\n")
    list(APPEND _wrappers "${_wrapper}")
  endforeach()
  add_library(osdn_emulated OBJECT EXCLUDE_FROM_ALL ${_wrappers})
  target_include_directories(osdn_emulated PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/tests>)
  target_compile_options(osdn_emulated
    PUBLIC "$<BUILD_INTERFACE:SHELL:-include \"${CMAKE_SOURCE_DIR}/tests/gpu/cuda_emulator.h\">"
    PRIVATE -O2 -w)
endif()
