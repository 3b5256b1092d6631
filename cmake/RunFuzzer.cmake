# cmake -DFUZZER=program -DSECONDS=n -DSEEDS=folder -P RunFuzzer.cmake
# Runs a libFuzzer program on a fresh copy of the seeds and the examples, beside the program. An
# input that crashes it stays there.
set(scratch ${FUZZER}.corpus)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})
file(GLOB_RECURSE seeds ${SEEDS}/* examples/*.braid)
file(COPY ${seeds} DESTINATION ${scratch})
execute_process(
  COMMAND ${FUZZER} -max_total_time=${SECONDS} -timeout=10 -rss_limit_mb=2048 -max_len=4096
          -print_final_stats=1 -artifact_prefix=${FUZZER}- ${scratch}
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the fuzzer stopped with ${status}; the input is ${FUZZER}-*")
endif()
