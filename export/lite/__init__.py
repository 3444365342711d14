"""TFLite files: conversion, calibration, metadata."""
