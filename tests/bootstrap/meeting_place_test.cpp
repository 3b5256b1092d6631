//===- tests/bootstrap/meeting_place_test.cpp
