// muster::formats: file formats read with distrust and without LibTorch.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/formats/checkpoint_index.h"
#include "muster/formats/cifar.h"
#include "muster/formats/csv_data.h"
#include "muster/formats/csv_reader.h"
#include "muster/formats/dataset_spec.h"
#include "muster/formats/features.h"
#include "muster/formats/idx.h"
#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/divided_folders.h"
#include "muster/formats/image/folder_survey.h"
#include "muster/formats/image/image.h"
#include "muster/formats/image/image_source.h"
#include "muster/formats/safetensors_header.h"
#include "muster/formats/table.h"
#include "muster/formats/tar/byte_source.h"
#include "muster/formats/tar/shard_pattern.h"
#include "muster/formats/tar/tar_data.h"
#include "muster/formats/tar/tar_images.h"
#include "muster/formats/tar/tar_index.h"
#include "muster/formats/tar/tar_reader.h"
