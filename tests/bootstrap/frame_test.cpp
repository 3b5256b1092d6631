//===- tests/bootstrap/frame_test.cpp
