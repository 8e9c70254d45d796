"""Drawing of the generated demo data sets: outlines, textures, and scenes."""
