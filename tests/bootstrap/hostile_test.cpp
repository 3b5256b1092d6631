//===- tests/bootstrap/hostile_test.cpp
