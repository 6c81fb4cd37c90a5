"""muster's chains that move pixels and what they are in torchvision, for make_golden.py."""

from torchvision.transforms import InterpolationMode, v2

BILINEAR = InterpolationMode.BILINEAR

# Pixels go where whole numbers say.
EXACT = {
    "random_horizontal_flip:p=1": v2.RandomHorizontalFlip(1.0),
    "random_vertical_flip:p=1": v2.RandomVerticalFlip(1.0),
    "random_horizontal_flip|random_vertical_flip": v2.Compose([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]),
    "center_crop:size=[11,13]": v2.CenterCrop([11, 13]),
    "pad:padding=[1,2,3,4]": v2.Pad([1, 2, 3, 4]),
    "random_crop:size=[15,14],padding=2": v2.RandomCrop([15, 14], padding=2),
    "random_crop:size=[50,20],pad_if_needed=true": v2.RandomCrop([50, 20], pad_if_needed=True),
    "random_resized_crop:size=[16,18]": v2.RandomResizedCrop([16, 18]),
    "resize:size=[40,31]": v2.Resize([40, 31]),
    "resize:size=15,interpolation=nearest-exact": v2.Resize(15, interpolation=InterpolationMode.NEAREST_EXACT),
    "color_jitter:brightness=0.4|random_invert:p=1": v2.Compose([v2.ColorJitter(0.4), v2.RandomInvert(1.0)]),
    "random_choice(random_crop:size=14|random_order(resize:size=25|random_horizontal_flip))|random_vertical_flip":
        v2.Compose([v2.RandomChoice([v2.RandomCrop(14), v2.RandomOrder([v2.Resize(25), v2.RandomHorizontalFlip()])]),
                    v2.RandomVerticalFlip()]),
}

# Pixels are sampled: a mask's may differ where two are as near.
SAMPLED = {
    "random_rotation:degrees=30,interpolation=bilinear": v2.RandomRotation(30, interpolation=BILINEAR),
    "random_rotation:degrees=[10,80],expand=true": v2.RandomRotation((10, 80), expand=True),
    "random_rotation:degrees=90,center=[3,4]": v2.RandomRotation(90, center=[3, 4]),
    "random_affine:degrees=20,translate=[0.1,0.3],scale=[0.7,1.3],shear=10":
        v2.RandomAffine(20, translate=(0.1, 0.3), scale=(0.7, 1.3), shear=10),
    "random_perspective:p=1": v2.RandomPerspective(p=1.0),
    "random_apply(random_affine:degrees=40|random_crop:size=17):p=0.8|random_perspective":
        v2.Compose([v2.RandomApply([v2.RandomAffine(40), v2.RandomCrop(17)], p=0.8), v2.RandomPerspective()]),
}

CLAMP = v2.ClampBoundingBoxes(clamping_mode="soft")
# Upright boxes and what goes with them.
FILTERED = {
    "random_crop:size=[12,11]|filter_boxes:min_size=2,min_area=9":
        v2.Compose([v2.RandomCrop([12, 11]), CLAMP, v2.SanitizeBoundingBoxes(min_size=2, min_area=9)]),
    "random_resized_crop:size=[16,18]|random_horizontal_flip|filter_boxes":
        v2.Compose([v2.RandomResizedCrop([16, 18]), v2.RandomHorizontalFlip(), CLAMP, v2.SanitizeBoundingBoxes()]),
    "random_affine:degrees=40,translate=[0.3,0.3]|filter_boxes:min_size=3":
        v2.Compose([v2.RandomAffine(40, translate=(0.3, 0.3)), CLAMP, v2.SanitizeBoundingBoxes(min_size=3)]),
}
# With torchvision's default, which cuts boxes off behind each step that may move them out.
CLAMPED = {
    "random_crop:size=[15,14],padding=2|clamp_boxes|random_rotation:degrees=30|clamp_boxes":
        v2.Compose([v2.RandomCrop([15, 14], padding=2), v2.RandomRotation(30)]),
    "random_affine:degrees=20,translate=[0.3,0.3]|clamp_boxes|random_perspective:p=1|clamp_boxes|random_horizontal_flip":
        v2.Compose([v2.RandomAffine(20, translate=(0.3, 0.3)), v2.RandomPerspective(p=1.0), v2.RandomHorizontalFlip()]),
}
