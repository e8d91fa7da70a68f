# Locates LibTorch without its own TorchConfig.cmake, which refuses to
# configure a CUDA build of LibTorch on a machine that has no CUDA toolkit.
#
# Looked for in, in this order: -DLIBTORCH_DIR, $LIBTORCH_DIR, the folder that
# scripts/setup.sh chose (.deps/libtorch.path). The folder is the one that
# holds lib/ and include/.
#
# Defines LibTorch_FOUND, LibTorch_VERSION, LibTorch_DIR and the target
# LibTorch::cpu. The CUDA half (libtorch_cuda.so) is opened at run time, when
# a GPU is there, so one program serves both kinds of machine.

set(_candidates "")
if(LIBTORCH_DIR)
  list(APPEND _candidates "${LIBTORCH_DIR}")
endif()
if(DEFINED ENV{LIBTORCH_DIR})
  list(APPEND _candidates "$ENV{LIBTORCH_DIR}")
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/.deps/libtorch.path")
  file(STRINGS "${CMAKE_SOURCE_DIR}/.deps/libtorch.path" _chosen LIMIT_COUNT 1)
  list(APPEND _candidates "${_chosen}")
endif()

set(LibTorch_DIR "LibTorch_DIR-NOTFOUND")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/lib/libtorch_cpu.so" AND EXISTS "${_dir}/include/ATen/ATen.h")
    set(LibTorch_DIR "${_dir}")
    break()
  endif()
endforeach()

if(LibTorch_DIR)
  # Kept, so that a later re-configure does not depend on the environment.
  set(LIBTORCH_DIR "${LibTorch_DIR}" CACHE PATH "Folder of LibTorch")
  # The numbers' place moved between releases.
  foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_DIR}/include/${_header}")
      file(STRINGS "${LibTorch_DIR}/include/${_header}" _lines
           REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX REPLACE "[^0-9;]" "" _numbers "${_lines}")
      string(REPLACE ";" "." LibTorch_VERSION "${_numbers}")
    endif()
  endforeach()
endif()

list(JOIN _candidates ", " _candidates)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "run scripts/setup.sh, or set LIBTORCH_DIR to a folder with lib/libtorch_cpu.so and include/ATen (tried: ${_candidates})")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    "${LibTorch_DIR}/include" "${LibTorch_DIR}/include/torch/csrc/api/include")
  # LibTorch's headers then read only the operators that they use, not all of
  # ATen/Functions.h, which costs seconds a file.
  target_compile_definitions(LibTorch::cpu INTERFACE AT_PER_OPERATOR_HEADERS)
  target_link_libraries(LibTorch::cpu INTERFACE
    "${LibTorch_DIR}/lib/libtorch_cpu.so" "${LibTorch_DIR}/lib/libc10.so")
  # libtorch_cpu.so of a CUDA build needs libcudart and libcupti; where they
  # lie beside it in the wheel's nvidia/ folder, the linker has to be told.
  set(_hints "${LibTorch_DIR}/lib" "${LibTorch_DIR}/../nvidia/cu13/lib"
      "/usr/local/cuda/lib64" "/usr/local/cuda/extras/CUPTI/lib64")
  foreach(_hint IN LISTS _hints)
    if(EXISTS "${_hint}")
      target_link_options(LibTorch::cpu INTERFACE "LINKER:-rpath-link,${_hint}")
    endif()
  endforeach()
  target_link_options(LibTorch::cpu INTERFACE "LINKER:--allow-shlib-undefined")
  # Code of ours that starts threads shares those of LibTorch: its own OpenMP
  # library where it brings one, under whatever name.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(LibTorch::openmp INTERFACE IMPORTED)
  file(GLOB _openmp "${LibTorch_DIR}/lib/libgomp*.so*"
       "${LibTorch_DIR}/../torch.libs/libgomp*.so*")
  if(_openmp)
    list(GET _openmp 0 _openmp)
    target_link_libraries(LibTorch::openmp INTERFACE "${_openmp}")
  else()
    target_link_libraries(LibTorch::openmp INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
