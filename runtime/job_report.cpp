//===- runtime/job_report.cpp - what the ranks of a job are doing, in words
#include "runtime/job_report.h"
