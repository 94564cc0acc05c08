# How CMake compiles Bitcoin Core's engine and, for `make judge`, bitcoind: several sources at a time, which takes 170
# CPU seconds in place of 290 for the engine, most of which go into reading the same headers. The sources that decide
# about scripts are compiled as their authors do, each by itself. CMake reads this file through the environment
# (.cargo/config.toml), or from scripts/judge.sh.

function(compile_together)
	if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
		return()
	endif()
	set(alone hash kernel/bitcoinkernel primitives/transaction pubkey script/interpreter script/script
		script/script_error uint256)
	# bitcoin-cli must not link init/common.cpp, but does link sources next to it. node/chainstate.cpp, compiled together
	# with others, takes node's CacheSizes for the kernel's.
	list(APPEND alone init/common node/chainstate)
	list(TRANSFORM alone PREPEND "${CMAKE_SOURCE_DIR}/src/")
	list(TRANSFORM alone APPEND ".cpp")
	foreach(target bitcoinkernel bitcoin_node bitcoin_common bitcoin_util leveldb)
		if(TARGET ${target})
			# With more at a time, the compiler needs more than 0.7 GB of memory.
			set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
			set_source_files_properties(${alone} TARGET_DIRECTORY ${target} PROPERTIES
				SKIP_UNITY_BUILD_INCLUSION ON)
		endif()
	endforeach()
endfunction()
# Once there are targets.
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL compile_together)
