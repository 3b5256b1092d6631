# cmake -DFUZZER=program -DSECONDS=n -DSEEDS=folder -P RunFuzzer.cmake
# Runs a libFuzzer program on the seeds and the examples. New inputs are written to a fresh folder
# next to the program. An input that crashes the fuzzer is also saved next to the program.
set(scratch ${FUZZER}.corpus)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})
execute_process(
  COMMAND ${FUZZER} -max_total_time=${SECONDS} -timeout=10 -rss_limit_mb=2048 -max_len=4096
          -print_final_stats=1 -artifact_prefix=${FUZZER}- ${scratch} ${SEEDS} examples
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the fuzzer stopped with ${status}; the input is ${FUZZER}-*")
endif()
