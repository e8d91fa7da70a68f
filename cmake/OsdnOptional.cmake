# Reports the optional parts, one line each: found, not demanded. CUDA is
# switched by OSDN_CUDA; NCCL and MPI serve runs over several GPUs and hosts.

if(OSDN_HAVE_CUDA)
  message(STATUS "osdn: CUDA ${CMAKE_CUDA_COMPILER_VERSION} found, kernels are built for sm_90a, with PTX for 8.0 and later")
elseif(OSDN_CUDA STREQUAL "OFF")
  message(STATUS "osdn: CUDA switched off (OSDN_CUDA=OFF), building for the CPU alone")
else()
  message(STATUS "osdn: CUDA not found, building for the CPU alone")
endif()

if(OSDN_HAVE_NCCL)
  message(STATUS "osdn: NCCL found (${OSDN_NCCL_INCLUDE_DIR}), for runs over several GPUs")
elseif(OSDN_HAVE_CUDA)
  message(STATUS "osdn: NCCL not found, building for one GPU")
endif()
if(OSDN_HAVE_MPI)
  message(STATUS "osdn: MPI ${MPI_C_VERSION} found, for runs of several ranks")
else()
  message(STATUS "osdn: MPI not found, building for one rank")
endif()
