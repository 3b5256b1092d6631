//===- tests/bootstrap/socket_test.cpp
