// Tensors between TensorFlow and us, as far as it goes without TensorFlow; with it, src/adapters/tensorflow/backend tests it.

#include "tensorflow/tensor-exchange.h"

#include "check.h"

TEST("a process without TensorFlow gets an error that says so") {
  CHECK_EQ(hvd::tensorflow::connect().problem, std::string("TensorFlow is not loaded in this process"));
  CHECK(hvd::tensorflow::collect() == nullptr);
}
