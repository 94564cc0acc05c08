# How CMake compiles Bitcoin Core's engine here: several sources at a time, which takes 170 CPU seconds in place of
# 290, most of which go into reading the same headers. The sources that decide about scripts are compiled as their
# authors do, each by itself. CMake reads this file through the environment (.cargo/config.toml).

function(compile_together)
	if(NOT TARGET bitcoinkernel OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
		return()
	endif()
	# With more at a time, the compiler needs more than 0.7 GB of memory.
	set_target_properties(bitcoinkernel leveldb PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
	set(alone hash kernel/bitcoinkernel primitives/transaction pubkey script/interpreter script/script
		script/script_error uint256)
	list(TRANSFORM alone PREPEND "${CMAKE_SOURCE_DIR}/src/")
	list(TRANSFORM alone APPEND ".cpp")
	set_source_files_properties(${alone} TARGET_DIRECTORY bitcoinkernel PROPERTIES
		SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
# Once there are targets.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL compile_together)
