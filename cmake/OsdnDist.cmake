# The area dist with its optional parts, MPI and NCCL, or their twins without.

find_package(MPI QUIET COMPONENTS C)
set(OSDN_HAVE_MPI ${MPI_C_FOUND})
find_path(OSDN_NCCL_INCLUDE_DIR nccl.h HINTS ENV CUDA_HOME ENV NCCL_HOME
  PATHS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(OSDN_NCCL_INCLUDE_DIR)
set(OSDN_HAVE_NCCL OFF)
if(OSDN_HAVE_CUDA AND OSDN_NCCL_INCLUDE_DIR)
  set(OSDN_HAVE_NCCL ON)
endif()

set(_without "")
set(_libraries Threads::Threads)
if(OSDN_HAVE_MPI)
  list(APPEND _without no_mpi.cpp)
  list(APPEND _libraries MPI::MPI_C)
else()
  list(APPEND _without transport_mpi.cpp)
endif()
if(OSDN_HAVE_NCCL)
  list(APPEND _without no_nccl.cpp)
  # The library itself is opened when several GPUs are used.
  list(APPEND _libraries CUDA::cudart_static ${CMAKE_DL_LIBS})
else()
  list(APPEND _without nccl_collectives.cpp)
endif()
osdn_add_area(dist DEPS core LIBS ${_libraries} EXCLUDE ${_without})
if(OSDN_HAVE_NCCL)
  target_include_directories(osdn_dist SYSTEM PRIVATE
    "${OSDN_NCCL_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
endif()
