"""Tensors and schedules: `from bound import te, tir` runs the schedule language of TVM's tensor expressions."""
