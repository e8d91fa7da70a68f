# Reports the optional parts, one line each: found, not demanded. CUDA is
# switched by OSDN_CUDA; NCCL and MPI serve runs over several GPUs and hosts.

if(OSDN_HAVE_CUDA)
  message(STATUS "osdn: CUDA ${CMAKE_CUDA_COMPILER_VERSION} found, kernels are built for sm_90a, with PTX for 8.0 and later")
elseif(OSDN_CUDA STREQUAL "OFF")
  message(STATUS "osdn: CUDA switched off (OSDN_CUDA=OFF), building for the CPU alone")
else()
  message(STATUS "osdn: CUDA not found, building for the CPU alone")
endif()

find_path(OSDN_NCCL_INCLUDE_DIR nccl.h HINTS ENV CUDA_HOME ENV NCCL_HOME
  PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(OSDN_NCCL_LIBRARY nccl HINTS ENV CUDA_HOME ENV NCCL_HOME
  PATHS /usr/local/cuda PATH_SUFFIXES lib lib64)
mark_as_advanced(OSDN_NCCL_INCLUDE_DIR OSDN_NCCL_LIBRARY)
if(OSDN_NCCL_INCLUDE_DIR AND OSDN_NCCL_LIBRARY)
  message(STATUS "osdn: NCCL found (${OSDN_NCCL_LIBRARY}), nothing uses it yet")
else()
  message(STATUS "osdn: NCCL not found, nothing needs it yet")
endif()

find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  message(STATUS "osdn: MPI ${MPI_CXX_VERSION} found, nothing uses it yet")
else()
  message(STATUS "osdn: MPI not found, nothing needs it yet")
endif()
