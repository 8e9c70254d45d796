"""Drawing the images of demo data sets: outlines, textures, scenes. For data sets that are generated."""
